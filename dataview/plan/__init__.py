"""What a view asks for, as a plan: nodes, their fields, symbols and operations.

A node is a value: shape, dtype, fields, and the nodes that it is made of.  What is done with nodes
is in the wings above.  All wings speak of plans, so they import the rooms of this one directly, but
those about gaps through the door `gaps`.
"""
