"""What holds an answer in any language: its numbers, dates, names and quotations."""

from unicodedata import normalize

import pytest

from planner.checks.agreement import agree
from planner.checks.citations import evidence, unproved
from planner.checks.claims import claims, in_all_readings
from planner.checks.grounding import converted, unsupported
from planner.events import PassagesGathered
from planner.passage import Passage
from planner.state import Iteration, RunState

TABLE: dict[str, tuple[list[str], list[str]]] = {
    "MAX_SIZE = 1500": (
        [
            "Die Grenze MAX_SIZE beträgt 1.500 Bytes.",
            "MAX_SIZE est de 1 500 octets.",
            "MAX_SIZE est de 1\u202f500 octets.",
            "MAX_SIZE est de 1\u00a0500 octets.",
            "MAX_SIZE ist 1'500.",
            "MAX_SIZE ist 1’500.",
            "MAX_SIZE は1,500です。",
            "MAX_SIZE は１５００です。",
            "MAX_SIZE の値は１，５００です。",
            "قيمة MAX_SIZE هي ١٥٠٠.",
            "قيمة MAX_SIZE هي ١٬٥٠٠.",
            "MAX_SIZE का मान १५०० है।",
            "MAX_SIZE คือ ๑๕๐๐",
            "مقدار MAX_SIZE برابر ۱۵۰۰ است.",
        ],
        [
            "Die Grenze MAX_SIZE beträgt 1.600 Bytes.",
            "MAX_SIZE est de 1 600 octets.",
            "MAX_SIZE est de 2 500 octets.",
            "MAX_SIZE ist 1'501.",
            "MAX_SIZE は１６００です。",
            "قيمة MAX_SIZE هي ١٦٠٠.",
            "MAX_SIZE का मान १६०० है।",
            "MAX_SIZE คือ ๑๖๐๐",
            "MAX_SIZE は1,600です。",
            "MAX_SIZE ist 150.",
            "MAX_SIZE是15000。",
        ],
    ),
    "price = 1500.5": (
        [
            "Der Preis ist 1.500,5.",
            "Le prix est de 1 500,5.",
            "Цена составляет 1 500,5.",
            "The price is 1,500.5.",
        ],
        [
            "Der Preis ist 1.500,6.",
            "Le prix est de 1 500,7.",
            "Der Preis ist 1.505,5",
            "Цена составляет 1 501,5.",
        ],
    ),
    "at: 2026-11-29T16:30:00+09:00, difference: +8.0h": (
        [
            "It is 4:30 PM.",
            "Son las 4:30 p. m.",
            "Son las 4:30 de la tarde.",
            "现在是下午4点30分。",
            "午後4時30分です。",
            "오후 4시 30분입니다.",
            "शाम के 4:30 बजे हैं।",
            "Разница составляет 8 часов.",
            "時差は8時間です。",
        ],
        [
            "It is 5:30 PM.",
            "It is 4:30 AM.",
            "It is 4 AM.",
            "Son las 5:30 de la tarde.",
            "Son las 4:31 de la tarde.",
            "现在是下午5点30分。",
            "오후 4시 31분입니다.",
            "Разница составляет 7 часов.",
        ],
    ),
    "web-7d9f8c6b5-abcde 1/1 Running 0 3d4h": (
        ["Seit 3 Tagen und 4 Stunden.", "3日4時間です。"],
        ["Seit 2 Tagen.", "4日5時間です。"],
    ),
    "ratio = 0.75": (
        [
            "Der Wert ratio ist 0,75.",
            "ratio vaut 0,75.",
            "ratio равно 0,75.",
            "ratio は０．７５です。",
            "ratio هو ٠٫٧٥.",
        ],
        [
            "Der Wert ratio ist 0,85.",
            "ratio vaut 0,57.",
            "ratio равно 0,7.",
            "ratio は０．８５です。",
            "ratio هو ٠٫٨٥.",
        ],
    ),
    "Der Rabatt beträgt 2,5 %.": (
        [
            "The discount is 2.5 %.",
            "The discount is 2.5%.",
            "Der Rabatt beträgt 2,5 %.",
        ],
        [
            "The discount is 3.5 %.",
            "The discount is 25 %.",
        ],
    ),
    "Die Anlage fasst 1.250.000 Liter.": (
        [
            "It holds 1,250,000 litres.",
            "It holds 1250000 litres.",
            "Die Anlage fasst 1.250.000 Liter.",
        ],
        [
            "It holds 1,350,000 litres.",
            "It holds 1,250 litres.",
        ],
    ),
    "Le réservoir contient 12 500 litres.": (
        [
            "It holds 12,500 litres.",
            "It holds 12500 litres.",
            "Il contient 12.500 litres.",
            "Il contient 12 500 litres.",
        ],
        [
            "It holds 12,600 litres.",
        ],
    ),
    "制限は１２０秒です。": (
        [
            "The limit is 120 seconds.",
            "制限は120秒です。",
            "制限は１２０秒です。",
        ],
        [
            "The limit is 130 seconds.",
            "制限は12秒です。",
        ],
    ),
    "المهلة ٣٠ ثانية.": (
        [
            "The timeout is 30 seconds.",
            "المهلة ٣٠ ثانية.",
        ],
        [
            "The timeout is 40 seconds.",
            "المهلة ٤٠ ثانية.",
        ],
    ),
    "समय सीमा ४५ सेकंड है।": (
        [
            "The time limit is 45 seconds.",
            "समय सीमा 45 सेकंड है।",
        ],
        [
            "The time limit is 54 seconds.",
            "समय सीमा 54 सेकंड है।",
        ],
    ),
    "RETRY_LIMIT = 7": (
        [
            "RETRY_LIMIT는 7입니다.",
            "RETRY_LIMIT은 7회입니다.",
            "RETRY_LIMITの値は7回です。",
            "RETRY_LIMIT是7。",
            "ค่าRETRY_LIMITคือ7ครั้ง",
            "RETRY_LIMIT:n arvo on 7.",
            "RETRY_LIMIT'in değeri 7'dir.",
            "Значение RETRY_LIMIT равно 7.",
            "RETRY_LIMIT का मान 7 है।",
            "RETRY_LIMIT-ის მნიშვნელობაა 7.",
            "«RETRY_LIMIT» равно «7».",
            "„RETRY_LIMIT“ ist 7.",
            "「RETRY_LIMIT」は7です。",
            "『RETRY_LIMIT』は7。",
            "القيمة لRETRY_LIMIT هي 7.",
            "مقدار RETRY_LIMITها 7 است.",
            "הערך בRETRY_LIMIT הוא 7.",
            "הערך של ה-RETRY_LIMIT הוא 7.",
        ],
        [
            "RETRY_LIMIT는 8입니다.",
            "RETRY_LIMIT은 17회입니다.",
            "RETRY_LIMITの値は8回です。",
            "RETRY_LIMIT是17。",
            "ค่าRETRY_LIMITคือ9ครั้ง",
            "RETRY_LIMIT:n arvo on 8.",
            "RETRY_LIMIT'in değeri 9'dur.",
            "Значение RETRY_LIMIT равно 17.",
            "RETRY_LIMIT का मान 8 है।",
            "RETRY_COUNT는 7입니다.",
            "RETRY_COUNTคือ7",
            "„RETRY_COUNT“ ist 7.",
            "「RETRY_COUNT」は7です。",
            "القيمة لRETRY_COUNT هي 7.",
            "הערך של ה-RETRY_COUNT הוא 7.",
        ],
    ),
    "MAX_SIZE = 50, MAX_TIME = 90": (
        ["其中MAX_SIZE=50。"],
        ["其中MAX_SIZE=90。"],
    ),
    "at: https://example.com/a, anna@example.com": (
        [
            "访问https://example.com/a进行配置。",
            "راجع https://example.com/a، ثم",
            "देखें https://example.com/a।",
            "יש לכתוב ל-anna@example.com.",
        ],
        [
            "访问https://example.com/b进行配置。",
            "يرجى الكتابة إلى anna@example.org، ثم",
        ],
    ),
    'message = "disk is full"': (
        [
            "Es sagt „disk is full“.",
            "Il dit « disk is full ».",
            "エラーは「disk is full」です。",
            "Сообщение «disk is full».",
            "It says “disk is full”.",
            "It says ‘disk is full’.",
        ],
        [
            "Es sagt „disk is broken“.",
            "Il dit « disk is broken ».",
            "エラーは「disk is broken」です。",
            "Сообщение «disk is broken».",
            "It says “disk is broken”.",
        ],
    ),
    "title: Настройки сервера": (
        [
            "Заголовок — «Настройки сервера».",
            'The title is "Настройки сервера".',
        ],
        [
            'The title is "Настройки клиента".',
        ],
    ),
    "標題：系統設定": (
        [
            "標題是「系統設定」。",
        ],
        [],
    ),
    "version = 2.10.3": (
        [
            "Die Version ist 2.10.3.",
            "版本是2.10.3。",
            "Версия 2.10.3.",
            "版本是v2.10.3。",
            "버전은 2.10.3입니다.",
        ],
        [
            "Die Version ist 2.10.4.",
            "版本是2.1.3。",
            "Версия 2.10.",
            "버전은 2.11.3입니다.",
        ],
    ),
    "released = 2024-05-12": (
        [
            "Released on 2024-05-12.",
            "Veröffentlicht am 12.05.2024.",
            "Veröffentlicht am 12.5.2024.",
            "Publié le 12/05/2024.",
            "2024年5月12日に公開。",
            "2024年05月12日发布。",
            "2024년 5월 12일에 출시되었습니다.",
            "Released on 12 May 2024.",
            "Released on May 12, 2024.",
            "Veröffentlicht am 12. Mai 2024.",
            "Опубликовано 12 мая 2024 года.",
            "12 मई 2024 को जारी।",
            "เผยแพร่เมื่อ 12 พฤษภาคม 2024",
            "Phát hành ngày 12 tháng 5 năm 2024.",
            "Megjelent: 2024. május 12.",
        ],
        [
            "Released on 2024-05-13.",
            "Veröffentlicht am 13.05.2024.",
            "Publié le 13/05/2024.",
            "2024年6月13日に公開。",
            "2024년 5월 17일에 출시되었습니다.",
            "Released on 17 May 2024.",
            "Опубликовано 17 мая 2024 года.",
            "Veröffentlicht am 12.05.2023.",
            "เผยแพร่เมื่อ 13 พฤษภาคม 2024",
            "Phát hành ngày 13 tháng 5 năm 2024.",
            "Megjelent: 2024. május 13.",
        ],
    ),
    "due: 2026-06-07": (
        ["7 जून 2026 तक।", "ภายใน 7 มิถุนายน 2026"],
        ["8 जून 2026 तक।", "ภายใน 8 มิถุนายน 2026"],
    ),
    "limit = 150000": (
        ["सीमा 1,50,000 है।", "सीमा १,५०,००० है।", "The limit is 150,000."],
        ["सीमा 1,60,000 है।", "सीमा 15,000 है।"],
    ),
    "price: ₹12,34,567": (
        ["The price is 1,234,567.", "कीमत ₹12,34,567 है।"],
        ["The price is 1,234,568."],
    ),
    "Stichtag: 31.12.2023": (
        [
            "The date is 31.12.2023.",
            "The date is 2023-12-31.",
            "Der Stichtag ist der 31.12.2023.",
        ],
        [
            "The date is 2023-12-30.",
            "Der Stichtag ist der 31.12.2024.",
        ],
    ),
    "timeout: 30s": (
        [
            "Der timeout ist 30 s.",
            "timeout は30秒です。",
            "timeout равен 30 секундам.",
            "timeout은 30초입니다.",
        ],
        [
            "Der timeout ist 3 s.",
            "timeout は300秒です。",
            "timeout равен 60 секундам.",
        ],
    ),
    "memory: 256Mi": (
        [
            "Der memory ist 256Mi.",
            "memory — 256 МиБ.",
            "memory は256MiBです。",
            "memory — 256МиБ.",
        ],
        [
            "memory — 512 МиБ.",
            "memory は512MiBです。",
            "Der memory ist 25 Mi.",
            "memory — 512МиБ.",
        ],
    ),
    "кэш: 512МБ": (
        [
            "The cache is 512 MB.",
            "Кэш 512МБ.",
        ],
        [
            "The cache is 51 MB.",
            "Кэш 256МБ.",
        ],
    ),
    "класс ОчередьЗадач:": (
        [
            "Класс называется `ОчередьЗадач`.",
        ],
        [
            "Класс называется `СписокЗадач`.",
        ],
    ),
    "def größe_prüfen(x):": (
        [
            "Die Funktion ist größe_prüfen.",
        ],
        [
            "Die Funktion ist größe_messen.",
        ],
    ),
    normalize("NFD", "def größe_zählen(x): # cổng_chính"): (
        ["Die Funktion ist größe_zählen.", "Đó là cổng_chính."],
        ["Die Funktion ist größe_messen.", "Đó là cổng_phụ."],
    ),
    "func añadirUsuario() {": (
        [
            "La función es añadirUsuario.",
        ],
        [
            "La función es borrarUsuario.",
            "La función es añadirCliente.",
        ],
    ),
    "размер_кэша = 64": (
        [
            "Это размер_кэша, 64.",
            "размер_кэша равен 64.",
        ],
        [
            "Это размер_буфера.",
            "размер_кэша равен 65.",
        ],
    ),
    "def обработать_заказ(): pass": (
        [
            "Функция обработать_заказ.",
        ],
        [
            "Функция удалить_заказ.",
        ],
    ),
    "final class ЗаказСервис {}": (
        [
            "Класс ЗаказСервис.",
        ],
        [
            "Класс ЗаказКонтроллер.",
        ],
    ),
    "path = конфиг/сервер.yaml": (
        [
            "Файл конфиг/сервер.yaml.",
        ],
        [
            "Файл конфиг/клиент.yaml.",
        ],
    ),
    "配置文件 config/主设置.toml": (
        [
            "在config/主设置.toml中。",
        ],
        [
            "在config/次设置.toml中。",
        ],
    ),
    "coverage = 85": (
        [
            "coverage ist 85 %.",
            "coverage — 85%.",
            "coverageは85％です。",
            "%85 coverage.",
            "نسبة coverage هي ٨٥٪.",
        ],
        [
            "coverage ist 95 %.",
            "coverage — 58%.",
            "coverageは95％です。",
            "نسبة coverage هي ٩٥٪.",
        ],
    ),
    "offset = -5": (
        [
            "offset is -5.",
            "offset ist −5.",
            "offsetは-5です。",
            "offsetは－５です。",
        ],
        [
            "offset is 5.",
            "offset is -6.",
            "offset ist −6.",
            "offsetは5です。",
        ],
    ),
}
"""What is found, the answers that it holds, and those that it does not."""
RIGHT = [(text, answer) for text, (right, _) in TABLE.items() for answer in right]
WRONG = [(text, answer) for text, (_, wrong) in TABLE.items() for answer in wrong]


def found(text: str) -> RunState:
    """A run that searched for the first word of a text, and found it."""
    passages = [Passage(source="src/found.txt", first=41, last=41, text=text)]
    gathered = PassagesGathered(iteration=0, query="", passages=passages)
    searched = {"pattern": text.split()[0]}
    read = Iteration(0, 0, "read", "", by="lookup", arguments=searched, gathered=gathered)
    return RunState(iterations=[read])


@pytest.mark.parametrize(("text", "answer"), RIGHT)
def test_a_right_answer_is_held(text: str, answer: str) -> None:
    assert unsupported(found(text), answer) == []
    assert unproved(found(text), answer) == []


@pytest.mark.parametrize(("text", "answer"), WRONG)
def test_a_wrong_answer_is_doubted(text: str, answer: str) -> None:
    state = found(text)
    assert unsupported(state, answer) or converted(state, answer) or unproved(state, answer)


@pytest.mark.parametrize(
    ("text", "answer"), [each for each in RIGHT if any(map(str.isdigit, each[0]))]
)
def test_a_right_answer_has_its_line_as_evidence(text: str, answer: str) -> None:
    state = found(text)
    state.answer = answer
    assert [each.lines for each in evidence(state)] == [[text]]


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        ("Il vaut 0,75.", "It is 0.75", True),
        ("1.500 Bytes", "1500 bytes", True),
        ("١٥٠٠", "1500", True),
        ("１２０秒", "120", True),
        ("12.05.2024", "2024-05-12", True),
        ("38,50 €", "It costs €38.50.", True),
        ("2.500,00 USD", "2500", True),
        ("It is due on December 2, 2026.", "2026-12-02", True),
        ("Am 2. Dezember 2026, nicht am 11. Dezember 2026.", "2026-12-02", True),
        ("It is 11:31 pm there.", "23:31", True),
        ("0,75", "0.57", False),
        ("1,500", "1.5", False),
        ("12.05.2024", "2024-05-13", False),
        ("It is due on December 2, 2026.", "2026-12-03", False),
        ("It is due on December 2, 2026.", "2025-12-02", False),
        ("It is 11:31 pm there.", "22:31", False),
    ],
)
def test_two_readings_agree_however_they_write_numbers(first: str, second: str, same: bool) -> None:
    assert agree(first, second, "?") is same
    assert agree(second, first, "?") is same


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("12/05/2024", {"2024-12-05", "2024-05-12", "12/05/2024"}),
        ("31.12.2023", {"2023-12-31"}),
        ("31.13.2023", {"31.13.2023"}),
        ("2024年5月12日", {"2024-05-12"}),
        ("logs/2024/05/12", {"logs/2024/05/12"}),
    ],
)
def test_a_date_is_read_in_each_way_that_it_may_be_meant(text: str, read: set[str]) -> None:
    assert {*in_all_readings(text).split()} == read


def test_what_is_no_quotation_and_no_name_is_not_claimed() -> None:
    """Many languages put such marks around words of their own."""
    assert claims("Это «максимум», das sind 256 MiB bei „x“, 在“最大重试次数”中") == ["256"]


@pytest.mark.parametrize("mark", ["{}. ", "({}) ", "{}、", "（{}）", "{}．", "{}."])
def test_the_numbers_of_a_list_are_not_claimed(mark: str) -> None:
    listed = (f"{mark.format(n)}查找{name}" for n, name in enumerate(["a_b", "c_d"], 3))
    assert claims("\n".join(listed)) == ["a_b", "c_d"]


def test_a_path_has_a_letter() -> None:
    assert claims("2024/notes.md, 3/4/a, 3/4") == ["2024/notes.md", "3/4/a", "3", "4"]
