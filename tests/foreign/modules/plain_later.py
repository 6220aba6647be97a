"""A class for a later version of the interface, which has other methods."""

CWNDLAB_CC_VERSION = 2


class Later:
    def on_event(self, flow, event):
        pass
