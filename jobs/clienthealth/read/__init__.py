"""What others write, as the product's own types: formats of the wire, log lines, thread dumps, names of MBeans."""
