"""What a question is made of: nodes, their fields, symbols and operations; how they are built.

A node is a value: shape, dtype, fields, and the nodes that it is made of.  What is done with nodes
is in the wings above.  All wings speak of plans, so they import the rooms of this one directly.
"""
