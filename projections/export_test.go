package projections

// MigrateTo is Migrate with the migrations of another version of the program.
var MigrateTo = migrate
