-- Version 6: the functions alone are others. A run that was deleted under its owner is a lease lost, and a
-- lock that is put back has another token than the one that vanished.
SELECT 1;
