"""The business processes: returning means done, an exception means failed."""


def book_order(order, event):
    """Books an order."""
    if order["Total"] <= 0:
        raise ValueError(f"order {order['OrderId']} is not above zero")
    with open("booked.txt", "a") as file:
        file.write(f"{order['OrderId']} {order['Total']:.2f}\n")
