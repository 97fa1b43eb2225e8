/** An object whose fields are written after it was made, by the code that makes it. */
export type Mutable<Type> = { -readonly [Field in keyof Type]: Type[Field] }
