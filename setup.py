from setuptools import setup

setup()  # all of it is said in setup.cfg
