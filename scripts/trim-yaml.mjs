// js-yaml so that a bundler can leave out what nobody imports. Its module makes every schema and the whole
// writer's tables as it loads, which no bundler dares to drop: 2.6 kB of the Worker, gzipped.

/** A variable of the module whose value is a call, a property or an object literal: of one line, or up to the line that closes it. */
const COMPUTED = /^((?:var|let|const) [\w$]+ = )((?:new )?[\w$.]+\(.*\)|[\w$]+\.[\w$]+|(?:(?:new )?[\w$.]+\(.*[[{]|\{)$[\s\S]*?^[\]})]+);$/gm

/** The same module, each computed variable marked as free of side effects. */
export const trimmable = (module) => module.replace(COMPUTED, '$1/* @__PURE__ */ (() => ($2))();')

/** The same module; its errors say what and where, and draw no picture of the lines around: src/config/yaml.ts shows none. */
export function pictureless(module) {
  const drawing = /^\t+mark\.snippet = makeSnippet\(mark\);\n/m
  if (!drawing.test(module)) throw new Error('scripts/trim-yaml.mjs: this version of js-yaml draws its pictures elsewhere')
  return module.replace(drawing, '')
}
