"""Read foreign data into the product's types: wire formats, log lines, thread dumps, names of MBeans."""
