package sqlledger

// Each runs a query and calls f for each of its rows.
type Each func(f func(scan func(...any) error) error, query string, args ...any) error

// Texts are the one column of a query.
func Texts(each Each, query string, args ...any) ([]string, error) {
	return Rows(each, func(scan func(...any) error) (text string, err error) {
		err = scan(&text)
		return text, err
	}, query, args...)
}

// Rows reads rows one by one.
func Rows[T any](each Each, read func(scan func(...any) error) (T, error), query string, args ...any) (rows []T, err error) {
	err = each(func(scan func(...any) error) error {
		row, err := read(scan)
		rows = append(rows, row)
		return err
	}, query, args...)
	return rows, err
}

// Maybe is the one row of a query, or nil: there is none, as the driver's error says.
func Maybe[T any](row T, err error, none func(error) bool) (*T, error) {
	switch {
	case none(err):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return &row, nil
}

// One is the row that a query by a unique key gave; nil: there is none.
func One[T any](found []*T, err error) (*T, error) {
	if err != nil || len(found) != 1 {
		return nil, err
	}
	return found[0], nil
}
