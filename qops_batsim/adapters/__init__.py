"""Our decision modules inside other people's Batsim tools."""
