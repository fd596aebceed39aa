package transfer

import (
	"slices"
	"strings"
	"unicode"
)

// system is one whose users can be imported from its dump: docs/recipes.md says how to add
// one. Names of tables have no prefix.
type system struct {
	name string

	// users is the table of the users. required are the columns of it that a dump must have,
	// the id first, optional those that it may have; --map can name each of them.
	users              []string // how its name may end
	required, optional []string

	// attributes are the tables with more about users: --map can name each key.
	attributes []attributes

	// columns are those of an import, as expressions of SQLite over the columns of users, all of
	// which are texts or NULL. {key} is the user's value of an attribute.
	columns []column
	without string // is true for rows that are no users
	form    string // of hashes that are digits and a salt, see password.AdoptForm

	html  []string // columns and attributes whose texts the system has escaped as HTML
	roles string   // how the key of an attribute ends that has the roles, after the prefix of the tables; "": another table has them

	realm bool // the file is an export of Keycloak, which fills the columns of users and the attributes
}

// column says what becomes a column of an import.
type column struct{ ours, theirs string }

// attributes is a table that has a value of a user in each row.
type attributes struct {
	table            string      // with a *: a table for each key, which stands in its place
	user, key, value string      // columns; a * in user stands for any text, and one in value for the key of the table
	name             string      // is the key of all rows, without such a column; "": key has it
	only             [][2]string // columns and their values in the rows that count
	before           string      // is put before the keys
	json             bool        // the values are JSON
}

// roles is the key of the roles, or groups, of every system, which --map calls "roles". It is not UTF-8, so that no
// attribute has it: users may write these.
const roles = "\xffroles"

// rolesTable returns the table that has the roles.
func (s *system) rolesTable() string {
	for _, a := range s.attributes {
		if a.name == roles || s.roles != "" {
			return a.table
		}
	}
	return ""
}

// isHTML reports whether a column or an attribute has texts that are HTML.
func (s *system) isHTML(name string) bool { return slices.Contains(s.html, name) }

// theirName returns the name that --map has for a field.
func theirName(key string) string {
	if key == roles {
		return "roles"
	}
	return shown(key)
}

// isRole reports whether an attribute has the roles.
func (s *system) isRole(key string) bool {
	return key == roles || s.roles != "" && strings.HasSuffix(key, s.roles)
}

// systems lists the systems by the names that --from has for them.
var systems = []system{
	{
		name:     "wordpress",
		users:    []string{"users"},
		required: []string{"ID", "user_login", "user_pass", "user_email", "user_registered", "display_name"},
		optional: []string{"user_nicename", "user_url", "user_status", "spam", "deleted"}, // the last two with several sites
		attributes: []attributes{
			{table: "usermeta", user: "user_id", key: "meta_key", value: "meta_value"},
		},
		html:  []string{"display_name", "first_name", "last_name", "nickname", "description"}, // wp-includes/default-filters.php
		roles: "capabilities",
		columns: []column{
			{columnID, "ID"}, {columnLogin, "user_login"}, {columnEmail, "user_email"}, {columnName, "display_name"}, {columnHash, "user_pass"},
			{columnCreated, "user_registered"}, {columnLocale, "{locale}"},
			// BuddyPress writes 1 for spam and 2 for users who have not activated their account; WordPress has 0.
			{columnDisabled, "'1' IN (coalesce(spam, ''), coalesce(deleted, '')) OR coalesce(user_status, '') IN ('1', '2')"},
		},
	},
	{
		name:     "mediawiki",
		users:    []string{"user"},
		required: []string{"user_id", "user_name", "user_real_name", "user_password", "user_email", "user_email_authenticated", "user_registration"},
		attributes: []attributes{
			{table: "user_properties", user: "up_user", key: "up_property", value: "up_value"},
			{table: "user_groups", user: "ug_user", name: roles, value: "ug_group"},
		},
		columns: []column{
			{columnID, "user_id"}, {columnLogin, "user_name"}, {columnEmail, "user_email"}, {columnName, "user_real_name"},
			// Before 1.13 a hash was salted with the id, and did not say so.
			{columnHash, "CASE WHEN length(user_password) = 32 AND user_password NOT GLOB ':*' THEN ':B:' || user_id || ':' || user_password ELSE user_password END"},
			{columnVerified, "user_email_authenticated <> '' AND user_email <> ''"}, {columnLocale, "{language}"},
			{columnCreated, "user_registration"},
		},
		without: "user_password = '' AND user_email = ''", // "MediaWiki default", for example
	},
	{
		name:     "drupal7",
		users:    []string{"users"},
		required: []string{"uid", "name", "pass", "mail", "created", "status", "language"},
		attributes: []attributes{
			{table: "field_data_*", user: "entity_id", value: "*_value", only: [][2]string{{"entity_type", "user"}, {"deleted", "0"}}},
			{table: "users_roles", user: "uid", name: roles, value: "rid"},
		},
		columns: []column{
			{columnID, "uid"}, {columnLogin, "name"}, {columnEmail, "mail"}, {columnHash, "pass"},
			{columnCreated, "created"}, {columnLocale, "language"}, {columnDisabled, "coalesce(status, '') <> '1'"},
		},
		without: "uid = '0'", // visitors
	},
	{
		name:     "drupal10",
		users:    []string{"users_field_data"},
		required: []string{"uid", "name", "pass", "mail", "created", "status", "preferred_langcode", "default_langcode"},
		attributes: []attributes{
			{table: "user__roles", user: "entity_id", name: roles, value: "roles_target_id"},
			{table: "user__*", user: "entity_id", value: "*_value", only: [][2]string{{"deleted", "0"}}},
		},
		columns: []column{
			{columnID, "uid"}, {columnLogin, "name"}, {columnEmail, "mail"}, {columnHash, "pass"},
			{columnCreated, "created"}, {columnLocale, "preferred_langcode"}, {columnDisabled, "coalesce(status, '') <> '1'"},
		},
		without: "uid = '0' OR default_langcode = '0'", // visitors; translations
	},
	{
		name:     "joomla",
		users:    []string{"users"},
		required: []string{"id", "name", "username", "email", "password", "block", "registerDate", "params"},
		attributes: []attributes{
			{table: "user_profiles", user: "user_id", key: "profile_key", value: "profile_value", json: true},
			{table: "fields_values", user: "item_id", key: "field_id", value: "value", before: "field."},
			{table: "user_usergroup_map", user: "user_id", name: roles, value: "group_id"},
		},
		columns: []column{
			{columnID, "id"}, {columnLogin, "username"}, {columnEmail, "email"}, {columnName, "name"}, {columnHash, "password"},
			{columnCreated, "registerDate"}, {columnDisabled, "coalesce(block, '') <> '0'"},
			{columnLocale, "CASE WHEN json_valid(params) THEN json_extract(params, '$.language') END"},
		},
		form: "md5(p.s)",
	},
	{
		name:     "django",
		users:    []string{"user", "users", "User", "Users"}, // auth_user, or that of a model of the site
		required: []string{"id", "password", "email", "is_active", "date_joined"},
		optional: []string{"username", "first_name", "last_name", "is_staff", "is_superuser"},
		attributes: []attributes{
			{table: "user_groups", user: "*user_id", name: roles, value: "group_id"}, // customuser_id of a model CustomUser
		},
		columns: []column{
			{columnID, "id"}, {columnLogin, "coalesce(username, email)"}, {columnEmail, "email"}, {columnHash, "password"},
			{columnName, "trim(coalesce(first_name, '') || ' ' || coalesce(last_name, ''))"},
			{columnCreated, "date_joined"}, {columnDisabled, "lower(coalesce(is_active, '')) NOT IN ('t', 'true', '1')"},
		},
	},
	{
		name:     "keycloak",
		users:    []string{"users"},
		required: []string{"id", "username", "email", "firstName", "lastName", "enabled", "emailVerified", "created", "hash"},
		columns: []column{
			{columnLogin, "username"}, {columnEmail, "email"}, {columnName, "trim(firstName || ' ' || lastName)"}, {columnHash, "hash"},
			{columnCreated, "created"}, {columnDisabled, "enabled = 'false'"}, {columnVerified, "emailVerified = 'true' AND email <> ''"},
			{columnLocale, "{locale}"},
		},
		realm: true,
	},
}

func findSystem(name string) *system {
	if i := slices.IndexFunc(systems, func(s system) bool { return s.name == name }); i >= 0 {
		return &systems[i]
	}
	return nil
}

// staged returns the columns of users that are staged.
func (s *system) staged() []string { return slices.Concat(s.required, s.optional) }

// sources returns the columns that an expression reads, or the attribute that it is.
func (s *system) sources(c column) []string {
	if key, ok := attributeOf(c.theirs); ok {
		return []string{key}
	}
	words := strings.FieldsFunc(c.theirs, func(r rune) bool { return !unicode.IsLetter(r) && r != '_' })
	return slices.DeleteFunc(s.staged(), func(name string) bool { return !slices.Contains(words, name) })
}

// match returns the prefix and the key of a table's name, if it is that of the attributes.
func (a attributes) match(name string) (prefix, key string, ok bool) {
	before, after, wildcard := strings.Cut(a.table, "*")
	if !wildcard {
		prefix, ok = strings.CutSuffix(name, a.table)
		return prefix, a.name, ok
	}
	i := strings.Index(name, before)
	if i < 0 || !strings.HasSuffix(name, after) {
		return "", "", false
	}
	return name[:i], name[i+len(before):], true
}
