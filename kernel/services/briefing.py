"""What an attempt is told: today's definition, the provider and its key, the assembled prompt.

Read again at each lease, so an edited file takes effect with the next attempt (fault CF18).
"""
