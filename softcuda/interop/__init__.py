"""Sharing arrays with other libraries: DLPack and CUDA array interface, without the driver.

What needs a device is in softcuda/executor/exchange.py and sharing.py.
"""
