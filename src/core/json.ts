/** A JSON object of which no field is checked yet. */
export type JsonObject = Readonly<Record<string, unknown>>

/** True for an object that is not null and not an array. */
export const isJsonObject = (value: unknown): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
