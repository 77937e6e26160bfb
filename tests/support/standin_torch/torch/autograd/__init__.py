import time


def backward(tensors, grad_tensors=None, retain_graph=None):
    time.sleep(tensors.seconds)
