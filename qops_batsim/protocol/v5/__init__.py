"""The protocol of Batsim 5 (batprotocol, in JSON), behind the same typed events and decisions."""
