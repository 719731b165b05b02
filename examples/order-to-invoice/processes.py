"""The business processes, in transactions of the database shop."""

from datetime import datetime, timedelta


def book(order, event):
    """Writes the row of an order, and sends the order on. One commit does both, or neither."""
    row = (order["OrderId"], order["Customer"], order["Sku"], order["Quantity"], str(order["Price"]))
    event.transaction.execute("INSERT INTO orders VALUES (?, ?, ?, ?, ?)", row)
    event.send(order, verb="Bill", destination="queue://booked")


def close_day(job, event):
    """Writes how many orders there are at the end of the day before the timer was due."""
    due = event.message.properties.get("connector_timer_due", event.message.timestamp)
    day = datetime.fromtimestamp(due / 1000).date() - timedelta(days=1)
    event.transaction.execute("INSERT INTO days SELECT ?, count(*) FROM orders", (day.isoformat(),))
