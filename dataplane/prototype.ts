/**
 * What every object of this process inherits, closed against words from outside. To be called before dependencies are loaded.
 *
 * `__proto__` becomes a name like any other, so that no key leads from an object to what all inherit, and nothing can be
 * added there. It is sealed, not frozen: below a frozen prototype the plain assignment `it.toString = …` throws, and
 * dependencies (ipaddr.js, for one) make their own methods in that way.
 */
export function closePrototype(): void {
  Reflect.deleteProperty(Object.prototype, '__proto__')
  Object.seal(Object.prototype)
}
