"""What work costs beyond an hour's price: interruptions, moved data, budgets, and the bill.

`spot` and `egress` add to the prices that `fleet.scheduling.price` compares; `budget` says whether
a team may spend more; `intervals` and `showback` make the bill out of Placements, and `months`
keeps it for those that are gone (docs/decisions/0004). All of it is pure: whole millionths of one
currency, times passed in. Nothing is converted from one currency to another, and a cost that is not
known is not zero.
"""
