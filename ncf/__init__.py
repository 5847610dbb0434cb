"""NeuMF trainer: ratings -> dataset -> sampling -> step -> train -> record."""

__version__ = "0.1.0"
