"""The broker's expression language: JMS' selectors, with paths into bodies that are JSON."""
