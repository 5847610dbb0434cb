"""Logs of other programs: NVIDIA's DLLogger and MLPerf lines, in and out."""
