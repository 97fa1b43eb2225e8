import { expect, it } from 'vitest'

const script = new URL('../../scripts/trim-names.mjs', import.meta.url).href
const { shortened } = (await import(/* @vite-ignore */ script)) as { readonly shortened: (module: string, names: readonly string[]) => string }

it('properties are shortened throughout, and no others', () => {
  expect(shortened('export const f = ({ position, other }) => ({ position: position + 1, other });\n', ['position'])).toContain('({ a: position, other }) => ({ a: position + 1, other });')
})

it('a name that is asked for by its text, or is not there, is not shortened blindly', () => {
  expect(() => shortened('export const f = (one) => "position" in one && one.position;', ['position'])).toThrow('asks for position by its text')
  expect(() => shortened('export const f = (one) => one.place;', ['position'])).toThrow('knows no position')
})
