"""What goes over the wire and onto the disk: frames, commands, and the selections within frames."""
