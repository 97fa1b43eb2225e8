// Changes to a library's text.

/** A module's text with its changes: pairs of what is there and what is to be instead. Throws when something is not there: another version, to be looked at anew. `whose`: who looks for it. */
export function changed(module, changes, whose) {
  return changes.reduce((text, [there, instead]) => {
    if (text.search(there) < 0) throw new Error(`${whose} has no ${there} where it is looked for`)
    return text.replace(there, instead)
  }, module)
}
