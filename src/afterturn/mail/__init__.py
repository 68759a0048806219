"""What a mail says, for whoever reads mail: files of it (:mod:`afterturn.importers`) or as it comes in."""
