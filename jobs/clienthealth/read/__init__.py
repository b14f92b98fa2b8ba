"""Convert foreign data to the product's types: wire formats, log lines, thread dumps, MBeans."""
