"""Hatchling's hook that tags the wheel: any Python 3, and the platform that packaging/wheel/build found the binaries made for."""

import os

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Tag(BuildHookInterface):
    """Says what the wheel runs on."""

    def initialize(self, version, build_data):
        """Sets the tag that PLATFORM names."""
        if "PLATFORM" not in os.environ:
            raise RuntimeError("packaging/wheel/build makes the wheel")
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{os.environ['PLATFORM']}"
