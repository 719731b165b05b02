"""The booking of orders, in transactions of the database shop."""


def book(order, event):
    """Writes the row of an order, and sends the order on. One commit does both, or neither."""
    row = (order["OrderId"], order["Customer"], order["Sku"], order["Quantity"], str(order["Price"]))
    event.transaction.execute("INSERT INTO orders VALUES (?, ?, ?, ?, ?)", row)
    event.send(order, verb="Bill", destination="queue://booked")
