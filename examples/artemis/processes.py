"""The business processes: returning means done, an exception means failed."""

import connector


def book_order(order, event):
    """Books an order."""
    if order["Total"] is None or order["Total"] <= 0:
        raise ValueError(f"the total of order {order['OrderId']} is not above zero")
    with open("booked.txt", "a") as file:
        file.write(f"{order['OrderId']} {order['Total']:.2f}\n")


def find_order(order, event):
    """Answers with the order that was booked."""
    with open("booked.txt") as file:
        for number, total in map(str.split, file):
            if number == order["OrderId"]:
                order["Total"] = total
                return order
    return connector.Reply("BO_DOES_NOT_EXIST", f"there is no order {order['OrderId']}")
