"""The lazy graph: the op table, its rules, nodes, and their frozen form as lines."""
