"""What happens to an invoice: one line in ledger.txt, beside adapter.yaml."""


def book(invoice, event):  # returning means done, an exception means failed
    if invoice["Amount"] <= 0:
        raise ValueError(f"invoice {invoice['Number']} is not above zero")
    with open("ledger.txt", "a") as ledger:
        ledger.write(f"{invoice['Number']} {invoice['Amount']:.2f}\n")
