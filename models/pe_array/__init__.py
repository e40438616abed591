"""The tensor PE array's executable models: pinned numbers, functional simulator, event replay."""
