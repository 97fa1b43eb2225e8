/** Types that bind the code of a response to its schema: neither can have a field that the other lacks. */
import type * as z from 'zod/mini'
import type { SnakeCase } from '../../snake-case.ts'

type Constant<Value> = Value extends readonly (infer Item)[]
  ? readonly Constant<Item>[]
  : Value extends object
    ? { readonly [Name in keyof Value]: Constant<Value[Name]> }
    : Value

/** JSON that a schema describes. */
export type View<Schema extends z.ZodMiniType> = Constant<z.infer<Schema>>

/** A view that code states field by field. Fields that may be absent are undefined, which JSON leaves out. */
export type AllFields<Type> = { readonly [Name in keyof Type]-?: Type[Name] }

/**
 * View of a type of the code, converted by `toSnakeCase`. If the schema has other fields than the type, it is an object
 * with their paths, so that the code that returns the view does not compile.
 */
export type ViewOf<Schema extends z.ZodMiniType, Type> = [Difference<View<Schema>, SnakeCase<Type>>] extends [never]
  ? View<Schema>
  : { readonly differs: Difference<View<Schema>, SnakeCase<Type>> }

type Difference<Described, Sent> =
  | Exclude<Paths<Sent>, Paths<Described, string>>
  | Exclude<Paths<Described>, Paths<Sent>>

/** Paths of all fields, such as `hurt.gave_up`. `MapKey`: keys of a map, if they count. */
type Paths<Value, MapKey extends string = never> = Value extends readonly (infer Item)[]
  ? Paths<Item, MapKey>
  : Value extends object
    ? string extends keyof Value
      ? MapKey
      : { [Name in keyof Value & string]-?: Name | `${Name}.${Paths<Value[Name], MapKey>}` }[keyof Value & string]
    : never
