from .optimizer import SGD as SGD
