"""The commands beside `ncf train`."""
