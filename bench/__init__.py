"""Benchmark orchestrator: suite -> launch -> store -> group -> stats -> tables | plots."""
