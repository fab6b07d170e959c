"""The Nexmark workload: its events as files, its queries for other engines, and what contenders are asked."""
