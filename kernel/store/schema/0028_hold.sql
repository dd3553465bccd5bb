PRAGMA user_version = 28;
