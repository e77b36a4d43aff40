"""The language: syntax tree and types, ops, devices and index expressions; what a text means, before any code is made."""
