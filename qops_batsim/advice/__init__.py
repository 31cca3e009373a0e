"""What a run's decisions tell an operator: quotes, explanations, prices."""
