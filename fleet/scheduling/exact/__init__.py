"""The exact reference: the best there is, proven by CP-SAT, to measure decisions against.

`question` reads the values that `placement` is asked with into integers, `gang` states one gang as
a constraint model and solves the levels of the objective one after the other, `batch` bounds what
any placement of many gangs could reach, `verdict` holds a decision against the optimum, `solver`
is the one door to OR-tools (extra `fleet[exact]`). Invariant: nothing here shares a line of search
with `placement`; only the values and the prices of rooms are common. Next step: whoever asked –
`fleet plan --exact`, tests, benches.
"""
