// js-yaml so that a bundler can leave out what nobody imports. Its module makes every schema and the whole
// writer's tables as it loads, which no bundler dares to drop: 2.6 kB of the Worker, gzipped.

/** A variable of the module whose value is a call, a property or an object literal: of one line, or up to the line that closes it. */
const COMPUTED = /^((?:var|let|const) [\w$]+ = )((?:new )?[\w$.]+\(.*\)|[\w$]+\.[\w$]+|(?:(?:new )?[\w$.]+\(.*[[{]|\{)$[\s\S]*?^[\]})]+);$/gm

/** The same module, each computed variable marked as free of side effects. */
export const trimmable = (module) => module.replace(COMPUTED, '$1/* @__PURE__ */ (() => ($2))();')

/** What errors are drawn and put together by: src/config/yaml.ts takes their reason and their mark. */
const DRAWING = [
  [/^\t+mark\.snippet = makeSnippet\(mark\);\n/m, ''],
  [/\bformatError\(this, false\)/, 'reason'],
  [/^\ttoString\(compact\) \{\n.*\n\t\}\n/m, ''],
]

/** The same module; its errors say what and where, and draw no picture of the lines around. */
export function pictureless(module) {
  return DRAWING.reduce((text, [there, instead]) => {
    if (!there.test(text)) throw new Error('scripts/trim-yaml.mjs: this version of js-yaml draws its pictures elsewhere')
    return text.replace(there, instead)
  }, module)
}

/** What a tag says of values that are to be written, and how: in one line, or up to the line that closes it. */
const WRITING = /^(\t+)(?:identify|represent|representTagName): (?:.*\{\n[\s\S]*?^\1\}|.*[^{\n]),?\n/gm

/** The same module; its tags know how to read, and no bundler keeps what they would be written by: 0.4 kB of the Worker, gzipped. */
export function readOnly(module) {
  const text = module.replace(WRITING, '')
  if (text === module || /^\t+represent(?:TagName)?:/m.test(text)) throw new Error('scripts/trim-yaml.mjs: this version of js-yaml writes its tags elsewhere')
  return text
}

/** The same module; what it calls its kinds of events, scalars and marks by are the numbers themselves: 0.2 kB more. */
export function numbered(module) {
  const numbers = new Map(Array.from(module.matchAll(/^var ([A-Z][A-Z_]*(?:\$\d)?) = (-?\d+);$/gm), ([, name, number]) => [name, number]))
  for (const [, table, members] of module.matchAll(/^var ([A-Z_]+) = .*\{\n((?:\t[A-Z_]+: \d+,?\n)+)\}/gm)) {
    for (const [, name, number] of members.matchAll(/(\w+): (\d+)/g)) numbers.set(`${table}.${name}`, number)
  }
  if (numbers.size === 0) throw new Error('scripts/trim-yaml.mjs: this version of js-yaml keeps its kinds elsewhere')
  return module.replace(/(?<!^var )\b[A-Z][A-Z_]*(?:\$\d|\.[A-Z_]+)?(?![\w$.])/gm, (said) => numbers.get(said) ?? said)
}

/** What its reader keeps in mind, and its tags and events say of themselves, by names that nobody outside says: 0.4 kB. */
export const OWN_NAMES = [
  'addItem', 'addPair', 'aliasCount', 'anchorEnd', 'carrierIsResult', 'chomping', 'defaultScalarTag', 'documents', 'eventIndex', 'eventsLength', 'firstTabInLine', 'frames',
  'hasKey', 'implicitFirstChars', 'implicitScalarAnyFirstChar', 'implicitScalarByFirstChar', 'implicitScalarTags', 'isValueFinal', 'keyIsMerge', 'keyPosition', 'lineIndent',
  'lineStart', 'lookupMappingTag', 'lookupScalarTag', 'lookupSequenceTag', 'matchByTagPrefix', 'nodeKind', 'nodeTags', 'overridable', 'position', 'resolveImplicitScalarTag',
  'tagEnd', 'tagHandlers', 'totalMergeKeys',
]
