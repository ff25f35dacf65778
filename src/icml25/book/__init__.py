"""What only chapters use: profiles, the claims ledger, figure style, interactive figures, progress.

Nothing here is needed to use a method; the methods never import it.
"""
