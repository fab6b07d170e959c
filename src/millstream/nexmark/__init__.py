"""The events of the Nexmark benchmark: persons, auctions and bids, as many as wanted, always the same."""
