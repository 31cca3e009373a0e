"""The protocol of Batsim 5 (batprotocol, in JSON), with Batsim 4's typed events and decisions."""
