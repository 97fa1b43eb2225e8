// Long names of a library's own as short ones: a bundler dares to shorten variables, and no properties.
import { transformSync } from 'esbuild'

/** The same module, with these properties shortened throughout: they are asked for by nobody outside, and nowhere by their text. */
export function shortened(module, names) {
  const transformed = transformSync(module, { mangleProps: new RegExp(`^(?:${names.join('|')})$`), mangleCache: {}, format: 'esm', target: 'es2024' })
  for (const name of names) {
    if (typeof transformed.mangleCache[name] !== 'string') throw new Error(`scripts/trim-names.mjs: this version of the library knows no ${name}`)
    if (new RegExp(`(["'])${name}\\1`).test(transformed.code)) throw new Error(`scripts/trim-names.mjs: something asks for ${name} by its text`)
  }
  return transformed.code
}
