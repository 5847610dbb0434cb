"""NVIDIA's published figures, and a scaling model fitted to them."""
