interface FieldProps {
  readonly name: string
  readonly label: string
  readonly type?: 'text' | 'date' | 'number'
  readonly hint?: string
  readonly required?: boolean
  readonly options?: readonly string[]
}

/** One labelled field of a form. */
export function Field({ name, label, type = 'text', hint, required = false, options = [] }: FieldProps) {
  const list = options.length === 0 ? undefined : `known-${name}`
  return (
    <label>
      {label}
      <input
        name={name}
        type={type}
        min={type === 'number' ? 1 : undefined}
        placeholder={hint}
        aria-label={label}
        autocomplete="off"
        spellcheck={false}
        required={required}
        list={list}
      />
      {list !== undefined && (
        <datalist id={list}>
          {options.map((option) => (
            <option key={option} value={option} />
          ))}
        </datalist>
      )}
    </label>
  )
}
