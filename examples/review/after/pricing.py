"""What an order costs."""


def total(prices):
    """The sum of all prices."""
    return sum(prices)


def average(prices):
    """The mean price of an order."""
    return total(prices) / len(prices)


def running_totals(prices):
    """The total after the first item, after the second, and so on to the last."""
    totals = []
    for count in range(1, len(prices)):
        totals.append(total(prices[:count]))
    return totals
