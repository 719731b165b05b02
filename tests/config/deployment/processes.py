def store_customer(customer: object, event: object) -> None:
    raise RuntimeError("a check must not run this")


raise RuntimeError("nor this")
