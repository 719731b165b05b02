def store_customer(customer, event):
    raise RuntimeError("a check must not run this")


raise RuntimeError("nor this")
